! SPDX-License-Identifier: BSD-3-Clause
! tests/mpi/halo_plain.f90: an exchange that repeats, by the procedures of mpif.h and mpi_f08.

subroutine by_f08(left, right, good)
    use mpi_f08
    implicit none
    integer, intent(in) :: left, right
    logical, intent(inout) :: good
    type(MPI_Request) :: request(2)
    type(MPI_Status) :: status(2)
    double precision :: out(500), in(500)
    integer :: step, count

    do step = 1, 100
        out = right * 1000d0 + step
        call MPI_Irecv(in, 500, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, request(1))
        call MPI_Isend(out, 500, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, request(2))
        call MPI_Waitall(2, request, status)
        call MPI_Get_count(status(1), MPI_DOUBLE_PRECISION, count)
        good = good .and. count == 500 .and. status(1)%MPI_SOURCE == left
        good = good .and. request(1) == MPI_REQUEST_NULL
    end do
    call MPI_Comm_rank(MPI_COMM_WORLD, step)
    good = good .and. maxval(abs(in - step * 1000d0 - 100)) < 0.5d0
end subroutine by_f08

program halo_plain
    use mpi
    implicit none
    integer :: rank, ranks, left, right, step, request(2), status(MPI_STATUS_SIZE, 2), error
    double precision :: out(500), in(500)
    logical :: good, every

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    left = mod(rank + ranks - 1, ranks)
    right = mod(rank + 1, ranks)
    good = .true.
    do step = 1, 100
        out = rank * 1000d0 + step
        in = -1
        call MPI_Irecv(in, 500, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, request(1), error)
        call MPI_Isend(out, 500, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, request(2), error)
        call MPI_Waitall(2, request, status, error)
        good = good .and. maxval(abs(in - left * 1000d0 - step)) < 0.5d0 &
          .and. status(MPI_TAG, 1) == 1
    end do
    call by_f08(left, right, good)
    call MPI_Reduce(good, every, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, error)
    if (rank == 0) print '(a, a)', merge('PASS', 'FAIL', every), ' halo_plain'
    call MPI_Finalize(error)
end program halo_plain
